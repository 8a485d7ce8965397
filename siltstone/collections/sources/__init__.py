"""Tables elsewhere whose rows a collection takes: folders and files of Parquet, tables of Delta.

What is here blocks, and reads only.
"""

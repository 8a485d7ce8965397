"""Plain files and objects in and out: each one a segment, or several one after the other."""

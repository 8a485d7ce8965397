"""Reading segments and tables of a container that is open."""

"""Plain files and objects in and out: each of them a segment, or several behind one another."""

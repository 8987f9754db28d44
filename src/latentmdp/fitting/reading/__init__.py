"""Reading logs: files and frames, columns, names, doubtful rows, counts."""

"""POMDP files: `.pomdp`, `.pomdpx` and `.policyx`, read and written."""

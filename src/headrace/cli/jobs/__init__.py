"""Scripts that commands run as jobs, in a folder of their own: a script's folder comes first on its path."""

"""Finds the inputs: files, folders, archives, standard input and URLs become sources that can be opened."""

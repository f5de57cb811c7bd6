"""Modules with which the words of a question read an image (`image_reader`)."""

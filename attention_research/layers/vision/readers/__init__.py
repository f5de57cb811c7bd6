"""How the words of a question read a picture (`image_reader`)."""

"""What a trained model does inside: attention weights of a sentence as a picture and as a page."""

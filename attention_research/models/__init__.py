"""Complete models. Each implements one of the model protocols (`models.protocol`)."""

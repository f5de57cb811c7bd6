"""Folders of runs and studies seen from outside: what is there, how runs differ, a run's page. No JAX is imported."""

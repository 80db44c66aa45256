"""The command ``windrow``: runs, explains and checks pipelines from a shell."""

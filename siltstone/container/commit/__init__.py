"""From an operation to an acknowledged one: appends, the pipeline, back-pressure, the fence."""

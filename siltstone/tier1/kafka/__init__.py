"""The Kafka log: frames as records of a topic with one partition, fenced by claims among them."""

__all__: list[str] = []

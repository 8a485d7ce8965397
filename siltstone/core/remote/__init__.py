"""What bindings of services at the other end of a network share."""

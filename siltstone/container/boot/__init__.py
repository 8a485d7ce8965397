"""How an owner begins: claim, journal, log, index, and the state that they give."""

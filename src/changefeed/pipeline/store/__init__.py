"""What a pipeline keeps: the ledger, the pending store, the dead letters."""

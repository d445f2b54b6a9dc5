"""How a member is doing, and who asks: snapshots, control socket, metrics, doctor."""

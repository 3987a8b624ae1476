"""The log broker: sockets and requests on one side, partition logs on the other."""

"""What server and sites say to each other: messages, terms, the wire format, signatures."""

"""From a source to shards: who holds which record, how it is encoded and scaled, which are held out."""

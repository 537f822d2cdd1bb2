"""Messages in journals: frames, the record envelope, identities and their sequence."""

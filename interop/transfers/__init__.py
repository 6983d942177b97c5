"""Zone transfers, NOTIFY, updates and catalogs between Zonda and each of the other servers, in both directions."""

"""Who says so: signatures and the policy about them."""

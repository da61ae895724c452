"""Which memories belong together, and which of them matter: edges, ranks, communities."""

"""Which memories belong together or are alike, and which of them matter: edges, ranks,
communities."""

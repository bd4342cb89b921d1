"""World Models (2018): VAE, MDN-RNN, controller."""

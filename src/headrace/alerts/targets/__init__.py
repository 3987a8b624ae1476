"""Where messages go: e-mail, webhooks, web push, and whatever apprise knows. Each sends one message, or fails."""

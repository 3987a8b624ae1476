"""Webhooks: requests of other systems as events (`incoming`), and events as requests to other systems (`outgoing`).

catalog   the definitions of both, a file for each
secrets   what a sender signs with: generated, rotated, never shown
"""

"""Whose record each is: dealt to clients, kept together by person, held out."""

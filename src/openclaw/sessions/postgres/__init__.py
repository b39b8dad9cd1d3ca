"""The store that many machines share: sessions in a PostgreSQL database."""

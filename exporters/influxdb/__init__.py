"""InfluxDB: Snapshots as line protocol, and the spool on disk that keeps them until a server has them."""

"""Bodies of the API, one module a subject: what OpenAPI describes is what is sent."""

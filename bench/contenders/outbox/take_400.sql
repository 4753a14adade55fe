SELECT array_agg(id) AS ids, coalesce(max(fence), 0) AS fence, count(payload) FROM idem_outbox_take('orders', 400) \gset
SELECT idem_outbox_ack(:ids, :fence);

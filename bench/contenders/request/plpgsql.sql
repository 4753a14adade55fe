-- One round trip too, at the price of a stored function for each kind of request.
SELECT place_order(:key, :customer_id, :amount);

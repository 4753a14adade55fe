UPDATE logged_jobs SET status = CASE status WHEN 'idle' THEN 'running' ELSE 'idle' END WHERE id = :id RETURNING status;

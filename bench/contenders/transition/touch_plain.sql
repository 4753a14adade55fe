UPDATE plain_jobs SET attempts = attempts + 1 WHERE id = :id RETURNING attempts;

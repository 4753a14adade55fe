CREATE TABLE reports (id int, title text);

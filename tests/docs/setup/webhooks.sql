CREATE TABLE greetings (body text);

package main

import (
	"context"
	"database/sql"
	"os"
	"strconv"

	_ "github.com/lib/pq"
)

func pay(ctx context.Context, db *sql.DB, key string, id int, amount int) error {
	// RECIPE
}

func main() {
	id, _ := strconv.Atoi(os.Args[2])
	db, err := sql.Open("postgres", "")
	if err == nil {
		err = pay(context.Background(), db, os.Args[1], id, 10)
	}
	if err != nil {
		panic(err)
	}
}

package main

import (
	"context"
	"os"
	"strconv"

	"github.com/jackc/pgx/v4"
)

func pay(ctx context.Context, connection *pgx.Conn, key string, id int, amount int) error {
	// RECIPE
	return err
}

func main() {
	ctx := context.Background()
	id, _ := strconv.Atoi(os.Args[2])
	connection, err := pgx.Connect(ctx, "")
	if err == nil {
		err = pay(ctx, connection, os.Args[1], id, 10)
	}
	if err != nil {
		panic(err)
	}
}

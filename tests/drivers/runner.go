package main

import (
	"bufio"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// The Go half of the protocol of check.py: a line in, a line out.

type argument struct {
	kind  string
	value json.RawMessage
}

func (a *argument) UnmarshalJSON(line []byte) error {
	return json.Unmarshal(line, &[]any{&a.kind, &a.value})
}

type statement struct {
	SQL  string
	Args []argument
}

type request struct {
	Do string
	statement
	Statements []statement
}

// A connection, or its transaction.
type handle interface {
	run(sql string, args []any) (columns []string, rows [][]any, err error)
	// transaction rolls back when work fails.
	transaction(work func(handle) error) error
	// batch sends them at once, in one transaction.
	batch(statements []statement) error
	argument(kind string, text string, value json.RawMessage) any
}

var (
	rollback = errors.New("rollback")
	lines    = bufio.NewScanner(os.Stdin)
	sqlstate func(error) string

	typeNames = strings.NewReplacer("main.asText", "[]byte", "[]uint8", "[]byte", "<nil>", "null")
)

func answer(message any) {
	line, err := json.Marshal(message)
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func text(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}

// What all drivers take as it is; the others go to the driver's own argument().
func (a argument) native(h handle) any {
	switch a.kind {
	case "null":
		return nil
	case "text":
		return text(a.value)
	case "bool":
		return string(a.value) == "true"
	case "int":
		number, err := strconv.Atoi(string(a.value))
		must(err)
		return number
	case "float":
		number, err := strconv.ParseFloat(string(a.value), 64)
		must(err)
		return number
	case "bigint":
		number, err := strconv.ParseInt(text(a.value), 10, 64)
		must(err)
		return number
	case "bytes":
		bytes, err := hex.DecodeString(text(a.value))
		must(err)
		return bytes
	case "time":
		at, err := time.Parse(time.RFC3339Nano, text(a.value))
		must(err)
		return at
	case "duration":
		duration, err := time.ParseDuration(strings.ReplaceAll(text(a.value), " ", ""))
		must(err)
		return duration
	}
	return h.argument(a.kind, text(a.value), a.value)
}

func (s statement) native(h handle) (args []any) {
	for _, argument := range s.Args {
		args = append(args, argument.native(h))
	}
	return
}

func strings_(value json.RawMessage) (elements []string) {
	var raw []json.RawMessage
	must(json.Unmarshal(value, &raw))
	for _, element := range raw {
		elements = append(elements, text(element))
	}
	return
}

func bigints(value json.RawMessage) (elements []int64) {
	for _, element := range strings_(value) {
		number, err := strconv.ParseInt(element, 10, 64)
		must(err)
		elements = append(elements, number)
	}
	return
}

// asText is a []byte that is no bytea.
type asText []byte

func (text asText) MarshalJSON() ([]byte, error) { return json.Marshal(string(text)) }

func tagged(rows [][]any) [][][2]any {
	answer := [][][2]any{}
	for _, row := range rows {
		values := [][2]any{}
		for _, value := range row {
			plain := value
			switch value := value.(type) {
			case []byte:
				plain = hex.EncodeToString(value)
			case driver.Valuer:
				var err error
				plain, err = value.Value()
				must(err)
			}
			values = append(values, [2]any{typeNames.Replace(fmt.Sprintf("%T", value)), plain})
		}
		answer = append(answer, values)
	}
	return answer
}

func failure(err error) any {
	message := map[string]any{"sqlstate": nil, "type": fmt.Sprintf("%T", err), "message": err.Error()}
	if state := sqlstate(err); state != "" {
		message["sqlstate"] = state
	}
	return map[string]any{"error": message}
}

func serve(h handle) error {
	for lines.Scan() {
		var request request
		must(json.Unmarshal(lines.Bytes(), &request))
		var err error
		switch request.Do {
		case "commit":
			return nil
		case "rollback":
			return rollback
		case "begin":
			err = h.transaction(func(inner handle) error {
				answer(struct{}{})
				return serve(inner)
			})
			if err == nil || err == rollback {
				answer(struct{}{})
				continue
			}
		case "batch":
			if err = h.batch(request.Statements); err == nil {
				answer(struct{}{})
				continue
			}
		default:
			var columns []string
			var rows [][]any
			if columns, rows, err = h.run(request.SQL, request.native(h)); err == nil {
				answer(map[string]any{"columns": columns, "rows": tagged(rows)})
				continue
			}
		}
		answer(failure(err))
	}
	return nil
}

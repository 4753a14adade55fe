package idem

import (
	"encoding/json"
	"net/http"
)

// response of a handler, of the database, or of the middleware's own: then it has a code.
type response struct {
	status  int
	header  http.Header
	body    []byte
	isLarge bool // the body is sent, and not here
	code    string
}

// problem is application/problem+json (RFC 9457) with idem's member `code`.
func problem(status int, code, detail string) *response {
	body, _ := json.Marshal(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "code": code, "detail": detail})
	return &response{status: status, header: http.Header{"Content-Type": {"application/problem+json"}}, body: body, code: code}
}

// Nothing of the request was kept, or a repetition will show what was: the client may send it again in a second.
func retryLater(code, detail string) *response {
	later := problem(http.StatusServiceUnavailable, code, detail)
	later.header.Set("Retry-After", "1")
	return later
}

func serializationFailure() *response {
	return retryLater("serialization_failure", "The transaction met another one and was rolled back.")
}

func unavailable() *response {
	return retryLater("unavailable", "The database could not be reached, or the connection was lost. Nothing was done.")
}

func leaseLost() *response {
	return retryLater("lease_lost", "The lease ran out, and another request may have taken over.")
}

func tooLarge() *response {
	return problem(http.StatusInternalServerError, "response_too_large", "The response is too large to be stored. Nothing was done.")
}

func internalError(detail string) *response {
	if detail == "" {
		detail = "The request was not processed. The log of the server has the reason."
	}
	return problem(http.StatusInternalServerError, "internal", detail)
}

package serve_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/graphrun/graphrun/serve"
)

// A server is a handler of package net/http.
func Example() {
	s, err := serve.Open(context.Background(), []string{"../examples/models/residual.json"},
		serve.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(s)
	defer server.Close()
	response, err := http.Get(server.URL + "/v2/models/residual/ready")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	fmt.Println(response.Status, strings.TrimSpace(string(text)), err)
	// Output: 200 OK {"name":"residual","ready":true} <nil>
}

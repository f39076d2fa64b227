// Command imageserver serves an image classifier over HTTP. The program has its own server, with an additional route,
// authorization and a graceful end. The resizing and normalization of images are part of the graph, so that clients
// send pixels.
//
//	TOKEN=secret go run ./examples/imageserver -listen 127.0.0.1:8000 &
//	TOKEN=secret go run ./examples/imageserver -classify photo.png
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/serve"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8000", "address of the server")
	file := flag.String("classify", "", "send this image (PNG or JPEG) to the server, instead of serving")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *file != "" {
		err = printClass(ctx, "http://"+*address, os.Getenv("TOKEN"), *file)
	} else {
		err = run(ctx, *address, os.Getenv("TOKEN"))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// openModel writes the graph of the classifier to a file and opens it. An exported model (.onnx) can take its place.
func openModel(ctx context.Context) (*serve.Server, error) {
	dir, err := os.MkdirTemp("", "imageserver")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // the server has read the files
	g, err := classifier()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, modelName+".json")
	if err := graphfile.SaveFile(path, g); err != nil {
		return nil, err
	}
	return serve.Open(ctx, []string{path}, serve.Options{MaxRows: 16, MaxBody: 16 << 20})
}

// newHandler returns the handler of the server: the model behind authorization, and a route of its own.
func newHandler(models *serve.Server, token string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v2/", authorized(token, models))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "POST images to /v2/models/%s/infer\n", modelName)
	})
	return mux
}

// authorized requires a bearer token. A server of many users looks the token up, or checks a session.
func authorized(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token == "" || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "a valid bearer token is required", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// run serves until the context ends. It then rejects new requests and waits for accepted ones.
func run(ctx context.Context, address, token string) error {
	models, err := openModel(ctx)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: address, Handler: newHandler(models, token), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drainContext, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(models.Drain(drainContext), server.Shutdown(drainContext))
}

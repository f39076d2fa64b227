// Package serve implements "graphrun serve".
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/serve"
)

// flags are the options of the command.
type flags struct {
	// The models and their batches.
	compile       command.Compile
	batching      string
	maxRows       int           // the value of --max-batch-size
	preferredRows []int         // the values of --preferred-batch-size
	maxDelay      time.Duration // the value of --max-queue-delay

	// The server and its limits.
	listen              string
	maxQueue            int
	maxBody             int64
	timeout, drainLimit time.Duration
	reloadInterval      time.Duration
	tokenFile           string
	tlsCert, tlsKey     string
	logJSON             bool
}

// batchings are the values of --batching.
var batchings = []string{string(serve.BatchExact), string(serve.BatchFast), string(serve.BatchOff)}

// Command returns the command serve.
func Command(ext *command.Extensions) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "serve DIR|MODEL...",
		Short: "Serve models over HTTP by the Open Inference Protocol",
		Long: `Serves models over HTTP by the Open Inference Protocol, version 2: /v2/models/NAME/infer takes tensors as
JSON or by the binary extension. /metrics has metrics in the text format of Prometheus.

A model is served under the base name of its file. In a directory, the files NAME.onnx, NAME.json,
NAME/model.onnx and NAME/VERSION/model.onnx are models with the name NAME. Changed files are loaded
again; until then, the old model answers.

Requests that wait at the same time run as one batch, joined along a symbolic first dimension, if the
rows of the batch are proved not to affect each other; otherwise the log names the node that prevents the
proof. With --batching exact, a result has the same bits in every batch.

After SIGTERM or Ctrl-C, the server answers the accepted requests and ends.`,
		Example: `  graphrun serve models --listen 127.0.0.1:8000
  graphrun serve resnet18.onnx --max-batch-size 32 --preferred-batch-size 8 --max-queue-delay 5ms
  curl localhost:8000/v2/models/resnet18`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageError(cmd, "serve wants models or directories")
			}
			return nil
		},
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error { return run(cmd, args, f) }),
	}
	flagSet := cmd.Flags()
	flagSet.StringVar(&f.listen, "listen", "127.0.0.1:8000", "listen on `ADDRESS`")
	flagSet.IntVar(&f.maxRows, "max-batch-size", 64, "join at most `N` rows into a batch")
	flagSet.IntSliceVar(&f.preferredRows, "preferred-batch-size", nil,
		"if enough rows wait, run batches of `N` rows; models are planned for the first of several N, or for one row, if "+
			"that plan costs relatively less (default: a plan for 8 rows, and for each model the fewest rows, up to 8 or "+
			"twice the least batch size, that occupy all workers and have nearly the least predicted cost per row)")
	flagSet.DurationVar(&f.maxDelay, "max-queue-delay", 2*time.Millisecond,
		"let a request wait at most `TIME` for other requests to fill a batch, if recent requests also waited")
	flagSet.IntVar(&f.maxQueue, "queue", 1024, "reject further requests while `N` requests wait")
	flagSet.StringVar(&f.batching, "batching", batchings[0],
		"join requests into batches by `MODE`: exact (if results keep their bits), fast (if rows are independent), "+
			"off (never)")
	flagSet.Int64Var(&f.maxBody, "max-body", 64<<20, "reject requests of more than `BYTES`")
	flagSet.DurationVar(&f.timeout, "timeout", time.Minute, "cancel requests after `TIME`")
	flagSet.DurationVar(&f.drainLimit, "drain", 30*time.Second,
		"after a signal to stop, wait at most `TIME` for accepted requests")
	flagSet.DurationVar(&f.reloadInterval, "reload", 2*time.Second, "check for changed models every `TIME`; 0 means never")
	flagSet.StringVar(&f.tokenFile, "token-file", "", "require the bearer token in `FILE`")
	flagSet.StringVar(&f.tlsCert, "tls-cert", "", "use TLS with the certificate in `FILE`")
	flagSet.StringVar(&f.tlsKey, "tls-key", "", "the private key of --tls-cert, in `FILE`")
	flagSet.BoolVar(&f.logJSON, "log-json", false, "print the log as JSON")
	command.CompleteFrom(cmd, "batching", batchings)
	f.compile.AddFlags(cmd, ext)
	return cmd
}

// check validates the flags.
func (f *flags) check(cmd *cobra.Command) error {
	if err := f.compile.Check(cmd); err != nil {
		return err
	}
	switch {
	case !slices.Contains(batchings, f.batching):
		return exit.UsageErrorf("--batching: unknown mode %q: %s", f.batching, format.WantOneOf(f.batching, batchings))
	case f.maxRows < 1:
		return exit.UsageErrorf("--max-batch-size %d: want at least 1", f.maxRows)
	case f.maxQueue < 1:
		return exit.UsageErrorf("--queue %d: want at least 1", f.maxQueue)
	case f.maxBody < 1:
		return exit.UsageErrorf("--max-body %d: want at least 1", f.maxBody)
	case f.timeout <= 0:
		return exit.UsageErrorf("--timeout %v: want a positive time", f.timeout)
	case f.maxDelay < 0 || f.reloadInterval < 0 || f.drainLimit < 0:
		return exit.UsageErrorf("--max-queue-delay, --reload and --drain must not be negative")
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return exit.UsageErrorf("--tls-cert and --tls-key must be given together")
	}
	for _, n := range f.preferredRows {
		if n < 1 || n > f.maxRows {
			return exit.UsageErrorf("--preferred-batch-size %d: want 1 to %d, the maximum batch size", n, f.maxRows)
		}
	}
	return nil
}

// run loads the models, listens, and answers requests until the context ends.
func run(cmd *cobra.Command, paths []string, f flags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	tlsConfig, err := f.tlsConfig()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	handler, err := serve.Open(ctx, paths, options)
	if err != nil {
		return exit.InterruptErrorOr(ctx, exit.UsageError(err))
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return exit.Failed(fmt.Errorf("--listen %s: %w", f.listen, err))
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		TLSConfig: tlsConfig, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(options.Log.Handler(), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- listen(server, listener) }()
	term.PrintNote(cmd, "listening on %s", listener.Addr())
	if f.reloadInterval > 0 {
		go reload(ctx, handler, f.reloadInterval, options.Log)
	}
	select {
	case err := <-ended:
		return exit.Failed(err)
	case <-ctx.Done():
	}
	return shutDown(handler, server, f.drainLimit)
}

// options returns the options of the server. It reads the token.
func (f *flags) options(cmd *cobra.Command) (serve.Options, error) {
	options := serve.Options{Loader: f.compile.Loader(), Compile: f.compile.Options(),
		Batching: serve.Batching(f.batching), MaxRows: f.maxRows, PreferredRows: f.preferredRows, MaxDelay: f.maxDelay,
		Queue: f.maxQueue, MaxBody: f.maxBody, Timeout: f.timeout, Version: environment.Version()}
	if f.maxDelay == 0 {
		options.MaxDelay = -1 // no delay; 0 would mean the default
	}
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		options.Token = strings.TrimSpace(string(text))
		if err == nil && options.Token == "" {
			err = fmt.Errorf("%s: the token is empty", f.tokenFile)
		}
		if err != nil {
			return options, exit.UsageErrorf("--token-file: %w", err)
		}
	}
	options.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	if f.logJSON {
		options.Log = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))
	}
	return options, nil
}

// tlsConfig returns the configuration of TLS; nil without a certificate.
func (f *flags) tlsConfig() (*tls.Config, error) {
	if f.tlsCert == "" {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
	if errors.As(err, new(*fs.PathError)) { // it names the file
		return nil, exit.UsageErrorf("--tls-cert, --tls-key: %w", err)
	}
	if err != nil {
		return nil, exit.UsageErrorf("--tls-cert %s, --tls-key %s: %w", f.tlsCert, f.tlsKey, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}}, nil
}

// listen answers requests, with TLS if the server has a configuration of TLS.
func listen(server *http.Server, listener net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

// reload looks for changed models until the context ends.
func reload(ctx context.Context, handler *serve.Server, interval time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := handler.Reload(ctx); err != nil {
			log.Error("models cannot be listed", "error", err)
		}
	}
}

// shutDown waits until the accepted requests are answered, at most for the time limit, and closes the connections.
func shutDown(handler *serve.Server, server *http.Server, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := handler.Drain(ctx)
	if err == nil {
		err = server.Shutdown(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		server.Close()
		return exit.Failed(fmt.Errorf("requests were still running after %v", limit))
	}
	return err
}

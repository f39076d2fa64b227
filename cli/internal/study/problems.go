package study

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
)

// writeProblems writes the layout problem of each task and its solution to a folder. The files of a task are
// NAME.json.gz, NAME.cfn.gz and NAME.solution.json. SHA256SUMS has the digests of the uncompressed files, so that the
// digests do not depend on the compression. optima.csv has a row for each problem. The times of the solver are written
// to the writer times, not to the folder, because they differ between runs. progress is called before each task.
func (r *runner) writeProblems(ctx context.Context, folder string, list []*Task, times io.Writer,
	progress func()) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	var sums, optima bytes.Buffer
	fmt.Fprintln(times, "problem,solve_ms")
	optima.WriteString("problem,variables,factors,optimum_ps,lower_bound_ps\n")
	for _, t := range list {
		progress()
		problem, err := r.problem(ctx, t)
		if err != nil {
			return err
		}
		start := time.Now()
		solution, err := solve(ctx, problem, t.solverLimit)
		if err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
		fmt.Fprintf(times, "%s,%.3f\n", t.problemName(), float64(time.Since(start).Microseconds())/1000)
		if err := writeProblem(ctx, folder, t, problem, solution, &sums); err != nil {
			return err
		}
		fmt.Fprintf(&optima, "%s,%d,%d,%d,%d\n", t.problemName(), len(problem.Variables), len(problem.Factors),
			solution.Cost, solution.Bound)
	}
	for name, text := range map[string]*bytes.Buffer{"SHA256SUMS": &sums, "optima.csv": &optima} {
		write := func(w io.Writer) error { _, err := w.Write(text.Bytes()); return err }
		if err := outfile.Write(ctx, filepath.Join(folder, name), write); err != nil {
			return err
		}
	}
	return nil
}

// problem returns the layout problem of a task.
func (r *runner) problem(ctx context.Context, t *Task) (*wcsp.Problem, error) {
	w, err := r.workload(ctx, t)
	if err != nil {
		return nil, err
	}
	options, err := r.options(t)
	if err != nil {
		return nil, err
	}
	options.Strategy = graphrun.Propagate // the layout problem is the same for each strategy
	compiled, err := graphrun.Compile(ctx, w.Graph, options)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	problem, err := experiment.Problem(compiled)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	return problem, nil
}

// problemName returns the base name of the files of the task's layout problem.
func (t *Task) problemName() string {
	words := strings.FieldsFunc(t.graph()+" "+t.Condition, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.=", r)
	})
	return strings.Join(words, "-")
}

// writeProblem writes the files of one problem and adds their digests to sums.
func writeProblem(ctx context.Context, folder string, t *Task, problem *wcsp.Problem, solution *wcsp.Solution,
	sums io.Writer) error {
	// Proofs are larger than problems. Readers can compute a proof again and check it by verify.Solution.
	withoutProof := *solution
	withoutProof.Proof = nil
	name := t.problemName()
	writeCFN := func(w io.Writer) error { return problem.WriteCFN(w, name) }
	for _, file := range []struct {
		name       string
		compressed bool
		write      func(w io.Writer) error
	}{
		{name + ".json", true, problem.Write},
		{name + ".cfn", true, writeCFN},
		{name + ".solution.json", false, withoutProof.Write},
	} {
		digest := sha256.New() // digest of the uncompressed file
		path := filepath.Join(folder, file.name)
		write := func(w io.Writer) error { return file.write(io.MultiWriter(w, digest)) }
		if file.compressed {
			path += ".gz"
			write = func(w io.Writer) error {
				compressor, err := gzip.NewWriterLevel(w, gzip.BestCompression)
				if err != nil {
					return err
				}
				if err := file.write(io.MultiWriter(compressor, digest)); err != nil {
					return err
				}
				return compressor.Close()
			}
		}
		if err := outfile.Write(ctx, path, write); err != nil {
			return err
		}
		fmt.Fprintf(sums, "%s  %s\n", hex.EncodeToString(digest.Sum(nil)), file.name)
	}
	return nil
}

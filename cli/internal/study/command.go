package study

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/outfile"
	"github.com/graphrun/graphrun/cli/internal/progress"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/program"
)

// flags are the options of the command. Empty paths stand for no file.
type flags struct {
	ext             *command.Extensions
	build           string // the output of graphrun version
	models, results string // paths of folders
	problems        string // path of a folder; if set, the command writes problems instead of results
	shard           command.Shard
	resume          bool
	json, markdown  bool
	csv, report     string // paths of additional files
}

const help = `Plans models under several strategies, sizes and conditions, and prints the gap of each strategy: its cost
less the certified lower bound, relative to the bound. STUDY.json lists the models, strategies and conditions:

  {"version": 1, "name": "small", "strategies": ["propagate", "channels_last", "optimal"],
   "models": [{"file": "resnet18/model.onnx", "dims": [{"N": 1}, {"N": 8}]}],
   "conditions": [{"name": "avx512", "profile": "avx512"},
                  {"name": "copies x 0.1", "profile": "avx512", "copies": 0.1}]}

Members of a condition; all except the name are optional:
  profile         the prices: avx512, avx2, portable, or a file in the folder of the study
  copies          a factor on the prices of copies and of transposed reading
  equal_layouts   ops on images have the same price in row-major and channels-last layout: the lower of the two prices
  no_fusion       nodes are not fused
  exact           implementations that round differently from the op's definition are excluded
  threads         a list of numbers of workers; plans are measured with each number. The default is no measurement
  tune            the budget of tune for each graph and number of threads, such as 30s: prices are measured, and results
                  have two more plans, tuned and predicted; a table compares tuned plans with the fastest, which the
                  first third of the runs chooses and the others measure
Further members of the study: runs (the measured runs of a plan; default 20), seed, solver_time_limit (default 10s).

A task is a model with sizes under one condition. Its result is a file in STUDY.results, named by the digest of the
model, the sizes, the options and the prices. --resume keeps the results that exist and are intact. --shard 2/8 makes
the second of eight parts; in an array job (Kubernetes, AWS Batch, Slurm), --shards 8 makes the part with the index of
the job's task. The tables are made from all results in the folder; missing results are counted. If all parts are made,
--resume without --shard only prints the tables.

A task that fails, for example because its model is missing, does not end the study. Failures are listed at the end
with their reasons, and the exit code is 1. If no model is found, nothing is planned, and the exit code is 2.

--problems DIR does not make results. It writes the layout problem of every task, as JSON and in the format of toulbar2,
with the optimal solution and the digests of the files, and prints the times of the solver.`

// Command returns the command study. build is the output of graphrun version.
func Command(ext *command.Extensions, build string) *cobra.Command {
	f := flags{ext: ext, build: build}
	cmd := &cobra.Command{
		Use:   "study STUDY.json",
		Short: "Compare strategies over many models, sizes and prices, with certified gaps",
		Long:  help,
		Example: `  graphrun study studies/layouts.json --models exported
  graphrun study studies/layouts.json --models exported --resume --shard 1/4
  graphrun study studies/layoutbench.json --models exported --problems layoutbench`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.UsageError(cmd, "study wants a study file, got %s", format.Count(len(args), "argument"))
			}
			return nil
		},
		RunE: exit.WithExitCode(func(cmd *cobra.Command, args []string) error { return run(cmd, args[0], f) }),
	}
	flagSet := cmd.Flags()
	flagSet.StringVar(&f.models, "models", "", "find models in `DIR` (default: the folder of the study)")
	flagSet.StringVar(&f.results, "results", "", "keep results in `DIR` (default: STUDY.results)")
	flagSet.BoolVar(&f.resume, "resume", false, "keep existing results")
	f.shard.AddFlags(cmd, "results")
	flagSet.StringVar(&f.problems, "problems", "", "write the layout problems to `DIR`, and make no results")
	flagSet.BoolVar(&f.json, "json", false, "print JSON")
	flagSet.BoolVar(&f.markdown, "markdown", false, "print the tables in Markdown")
	flagSet.StringVar(&f.csv, "csv", "", "also write a row for each result and strategy to `FILE.csv`")
	_ = cmd.MarkFlagFilename("csv", "csv")
	flagSet.StringVar(&f.report, "report", "", "also write the tables and charts to `OUT.html`")
	_ = cmd.MarkFlagFilename("report", "html")
	return cmd
}

// check validates the flags and sets the default folders. path is the study file.
func (f *flags) check(path string) error {
	if f.json && f.markdown {
		return exit.UsageErrorf("--json and --markdown exclude each other")
	}
	concernsResults := f.resume || f.csv != "" || f.report != "" || f.json || f.markdown || f.shard.IsSet()
	if f.problems != "" && concernsResults {
		return exit.UsageErrorf("--problems writes problems only: omit --resume, --shard, --shards, --csv, --report, " +
			"--json and --markdown")
	}
	if err := f.shard.Parse(); err != nil {
		return err
	}
	f.models = cmp.Or(f.models, filepath.Dir(path))
	f.results = cmp.Or(f.results, strings.TrimSuffix(path, filepath.Ext(path))+".results")
	return cmp.Or(outfile.CheckWritable("--csv", f.csv), outfile.CheckWritable("--report", f.report, ".html"))
}

// run computes the missing results of a study, and prints the tables of all results. After an interruption or a failed
// task, it prints the tables of the results so far.
func run(cmd *cobra.Command, path string, f flags) error {
	if err := f.check(path); err != nil {
		return err
	}
	study, err := read(f.ext, path)
	if err != nil {
		return exit.UsageError(err)
	}
	command.LimitGarbage()
	job := progress.Begin(cmd, filepath.Base(path))
	defer job.End()
	allTasks := study.tasks(job.Context, f.ext, f.models)
	needsAllModels := f.problems != ""
	// After an interruption, models that were not read are not missing: their error is the interruption.
	if err := missingModel(allTasks, needsAllModels); err != nil && job.Context.Err() == nil {
		return err
	}
	shardTasks := tasksOf(allTasks, f.shard)
	s := &session{flags: f, study: study, job: job, store: store{f.results},
		runner: &runner{ext: f.ext, build: f.build, commandLine: command.CommandLine(cmd, []string{path})}}
	if f.problems != "" {
		return s.writeProblems(cmd, shardTasks)
	}
	if err := os.MkdirAll(f.results, 0o777); err != nil {
		return exit.UsageError(err)
	}
	failures := s.runTasks(cmd, shardTasks)
	job.End()
	interruptErr := exit.InterruptError(cmd.Context())
	doc := s.document(allTasks, failures)
	doc.Interrupted = interruptErr != nil
	if err := f.print(cmd, doc); err != nil {
		return err
	}
	if err := f.writeReport(cmd, doc, s.runner.commandLine, path); err != nil {
		return err
	}
	switch failedErr := failureError(failures); {
	case interruptErr == nil && failedErr != nil:
		return exit.Failed(failedErr)
	case failedErr != nil:
		term.PrintNote(cmd, "%v", failedErr)
	}
	return interruptErr
}

// session runs the tasks of a study.
type session struct {
	flags  flags
	study  *Study
	job    *progress.Job
	runner *runner
	store  store
}

// writeProblems writes the layout problems of tasks, and prints the times of the solver.
func (s *session) writeProblems(cmd *cobra.Command, tasks []*Task) error {
	var times bytes.Buffer
	done := 0
	err := s.job.Do(progress.Planning, func() error {
		return s.runner.writeProblems(s.job.Context, s.flags.problems, tasks, &times, func() {
			s.job.Report(done, len(tasks))
			done++
		})
	})
	s.job.End()
	_, printErr := times.WriteTo(cmd.OutOrStdout()) // after a failure, too: the times so far
	return cmp.Or(err, printErr)
}

// runTasks computes and stores the results of tasks until the context ends. With --resume it skips tasks with a result.
func (s *session) runTasks(cmd *cobra.Command, tasks []*Task) (failures []Failure) {
	var missing []*Task
	for _, t := range tasks {
		if _, err := s.store.load(t); !s.flags.resume || err != nil {
			missing = append(missing, t)
		}
	}
	for i, t := range missing {
		s.job.ReportWithNotes(cmd, i, len(missing), "task")
		result, err := s.runner.run(s.job.Context, t)
		if err == nil {
			err = s.store.save(t, result)
		}
		if s.job.Context.Err() != nil {
			break
		}
		if err != nil {
			failures = append(failures, Failure{t.String(), err.Error()})
		}
	}
	return failures
}

// document returns the document of the stored results of tasks.
func (s *session) document(tasks []*Task, failures []Failure) *Document {
	doc := &Document{Study: s.study.Name, Missing: []string{}, Failures: program.NotNil(failures),
		Strategies: s.study.Strategies, Summaries: []Summary{}, Orders: []Order{}, Results: []Result{}}
	for _, c := range s.study.Conditions {
		doc.Conditions = append(doc.Conditions, c.Name)
	}
	for _, t := range tasks {
		if r, err := s.store.load(t); err == nil {
			doc.Results = append(doc.Results, *r)
		} else {
			doc.Missing = append(doc.Missing, t.String())
		}
	}
	doc.summarize()
	return doc
}

// print prints the document and writes the CSV file.
func (f *flags) print(cmd *cobra.Command, doc *Document) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	if f.json {
		document.Write(out, doc)
	} else {
		doc.write(&printer{out, term.StdoutDisplay(cmd), f.markdown})
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if f.csv == "" {
		return nil
	}
	return outfile.Write(context.WithoutCancel(cmd.Context()), f.csv, doc.writeCSV)
}

// writeReport writes the HTML file of --report, if the flag is given and there are results.
func (f *flags) writeReport(cmd *cobra.Command, doc *Document, commandLine, studyPath string) error {
	if f.report == "" || len(doc.Results) == 0 {
		return nil
	}
	return outfile.Write(context.WithoutCancel(cmd.Context()), f.report, func(w io.Writer) error {
		return doc.writeHTML(w, commandLine, studyPath)
	})
}

// failureError returns an error that lists the reasons of failures, each with its tasks; nil without failures.
func failureError(failures []Failure) error {
	if len(failures) == 0 {
		return nil
	}
	byReason := map[string][]string{}
	var reasons []string
	for _, f := range failures {
		if byReason[f.Message] == nil {
			reasons = append(reasons, f.Message)
		}
		byReason[f.Message] = append(byReason[f.Message], f.Task)
	}
	text := format.Count(len(failures), "task") + " failed; --resume makes the missing results"
	for _, reason := range reasons {
		tasks := byReason[reason]
		text += "\n  " + tasks[0]
		if n := len(tasks) - 1; n > 0 {
			text += " and " + format.Count(n, "other task")
		}
		text += ": " + strings.ReplaceAll(reason, "\n", "\n  ")
	}
	return errors.New(text)
}

package command

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
)

// Shard is the flags --shard and --shards. They divide the work of a command into parts (shards). This process does
// one of them.
type Shard struct {
	text   string // the value of --shard, such as 2/8; parts are numbered from 1
	shards int    // the value of --shards

	Index, Count int // index of the shard, from 0, and number of shards; set by Parse
}

// AddFlags adds the flags. work names the work that is divided.
func (s *Shard) AddFlags(cmd *cobra.Command, work string) {
	cmd.Flags().StringVar(&s.text, "shard", "", "run only part I of N parts of the "+work+": `I/N`, such as 2/8")
	cmd.Flags().IntVar(&s.shards, "shards", 0, "divide the "+work+" into `N` parts and run one: the part with the index "+
		"of this task of an array job (Kubernetes, AWS Batch, Slurm)")
	cmd.MarkFlagsMutuallyExclusive("shard", "shards")
}

// IsSet reports whether one of the flags is given.
func (s *Shard) IsSet() bool { return s.text != "" || s.shards != 0 }

// Parse sets Index and Count. Without the flags, all work is one shard.
func (s *Shard) Parse() (err error) {
	s.Index, s.Count = 0, 1
	switch {
	case s.text != "":
		_, err = fmt.Sscanf(s.text, "%d/%d", &s.Index, &s.Count)
		isWhole := s.text == fmt.Sprintf("%d/%d", s.Index, s.Count) // false for 2/8x, which Sscanf accepts
		if err != nil || s.Index < 1 || s.Index > s.Count || !isWhole {
			return exit.UsageErrorf("--shard %s: want a part and the number of parts, such as 2/8", s.text)
		}
		s.Index-- // counts from 0
	case s.shards < 0:
		return exit.UsageErrorf("--shards %d: want a positive number", s.shards)
	case s.shards > 0:
		s.Count = s.shards
		if s.Index, err = arrayIndex(); err == nil && s.Index >= s.Count {
			err = fmt.Errorf("the index of this task is %d, but it must be less than the number of parts", s.Index)
		}
		if err != nil {
			return exit.UsageErrorf("--shards %d: %w", s.shards, err)
		}
	}
	return nil
}

// indexVariables are pairs of environment variables of array jobs: the index of this task, and the least index of the
// job. Without the second variable the least index is 0.
var indexVariables = [][2]string{{"JOB_COMPLETION_INDEX"}, {"AWS_BATCH_JOB_ARRAY_INDEX"},
	{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN"}}

// arrayIndex returns the index of this task of an array job, from 0.
func arrayIndex() (int, error) {
	for _, names := range indexVariables {
		text, ok := os.LookupEnv(names[0])
		if !ok {
			continue
		}
		index, err := strconv.Atoi(text)
		if text := os.Getenv(names[1]); err == nil && names[1] != "" && text != "" {
			var least int
			least, err = strconv.Atoi(text)
			index -= least
		}
		if err != nil || index < 0 {
			return 0, fmt.Errorf("the environment variable %s is %q, but it must be the index of a task", names[0], text)
		}
		return index, nil
	}
	return 0, fmt.Errorf("this is not a task of an array job: none of the environment variables %s, %s and %s is set",
		indexVariables[0][0], indexVariables[1][0], indexVariables[2][0])
}

package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// entry is one line on standard output: the node is ready, or the library has
// called the provider.
type entry struct {
	Time  time.Time `json:"time"`
	Ready string    `json:"ready,omitempty"`
	Call  string    `json:"call,omitempty"`
	Pod   string    `json:"pod,omitempty"`
	UID   string    `json:"uid,omitempty"`
}

// journal writes entries, each in one piece.
type journal struct {
	mu sync.Mutex
	to io.Writer
}

func (j *journal) write(line entry) {
	line.Time = time.Now()
	text, _ := json.Marshal(line)
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = j.to.Write(append(text, '\n'))
}

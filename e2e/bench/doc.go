// Command bench measures klink beside MirrorMaker 2 and beside a bare
// fetch-and-produce loop, on one machine with two single real brokers.
//
//	go run ./e2e/bench -size short
//	go run ./e2e/bench -size long -rounds 3 -only W2,latency -json out.json
//
// A workload's log is loaded once into the source; then the systems mirror it in
// turn, round by round, each time into a fresh target. The Markdown table goes to
// standard output, progress to standard error.
//
// # What is measured
//
//   - The log ends on the target are polled. A run is measured from the first poll
//     that shows records to the one that shows all, or to the end of the time that
//     a system is given (its box); only records that came after the first poll
//     count. MB and GB are 1e6 and 1e9 bytes of the source's log.
//   - Processor time is user and system time of the mirror's process and of the
//     brokers' (/proc/PID/stat) at the same polls; peak memory is VmHWM.
//   - The table's figures are those of the second half of the records of a run,
//     when MirrorMaker 2 has compiled most of its code; klink and the loop are cut
//     the same way. Whole runs are in the JSON.
//   - Latency is the time from the call that produced a record to its delivery by
//     an ordinary consumer; what a mirror adds is the difference between the
//     percentiles of a consumer on the target and of one on the source, at the
//     same time.
//   - Logs that are not all records at successive offsets (fill, pad, streams1,
//     streams8) are measured in offsets. The loop beside klink does the same there
//     by the barest requests: one at a time per partition, with as many markers
//     or pads as klink's.
//   - An idle mirror has mirrored all of a thousand partitions; then its processor
//     time counts while nothing is produced.
//   - In a failover the source is killed by SIGKILL under a steady stream, and the
//     consumer with it; klink is told to fail over, MirrorMaker 2 has nothing to be
//     told. A consumer of the same group goes on at the target. What it was given
//     again is counted by offsets, which no transaction moves here; what lay behind
//     the group's last commit at the source is in it.
//   - Recoding is measured by the processor time of package batch by itself, in
//     this process, and by that of klink while it mirrors such a log.
//   - klink compare is timed by its own clock, without the start of its process, and
//     the bare loop beside it reads both sides with as many connections, an answer
//     ahead, decompresses and digests; or, beside --no-digest, reads alone.
//   - Other load of the machine during a run is shown, since it spoils figures.
//
// # What it promises
//
//	M1  All systems read the same log, from the same brokers, in the same run; the
//	    order within a round changes from round to round.
//	M2  A failed run gives no figures; it is listed with its cause and the exit
//	    code is 1.
//	M3  klink's first copy of each workload is compared with the source, record by
//	    record, by the lab's verifier.
//	M4  The table holds only what was measured in this very run.
//	M5  Processes, topics and files end with the program, also at Ctrl-C.
package main

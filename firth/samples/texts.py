"""Short texts written for the demo, the documentation and the tests."""

TEXTS: dict[str, tuple[str, ...]] = {
    "support": (
        "Since this morning's update the app closes itself whenever I open the calendar.",
        "I have been charged twice for March, and nobody answers my emails about a refund.",
        "The password link in your message has expired before I could click on it.",
        "My parcel says delivered, yet the only thing on the doorstep is the neighbour's cat.",
        "The printer on the third floor prints every page in pink and hums while it does so.",
        "Could you move our account to the yearly plan without losing the shared folders?",
    ),
    "law": (
        "The tenant shall give notice in writing no later than three months before moving out.",
        "The court found that the witness had been nowhere near the harbour on the night in "
        "question.",
        "Either party may terminate this agreement if the other fails to pay within thirty days.",
        "The appeal was dismissed because it reached the registry one day after the deadline.",
        "A will signed by only one witness is not valid, however clear the wishes of the deceased.",
        "The seller is liable for hidden defects that the buyer could not have discovered.",
    ),
    "weather": (
        "Fog will linger in the valleys until noon, then give way to a pale sun.",
        "A gale from the north-west brings waves of six metres to the outer islands tonight.",
        "After forty days without rain the reservoirs are down to a third of what they hold.",
        "Snow is expected above eight hundred metres, turning to sleet in the towns below.",
        "Thunderstorms with hail the size of cherries crossed the plain in the late afternoon.",
        "It will be mild and dry all weekend, with hardly a cloud and a light breeze.",
    ),
    "cooking": (
        "Brown the onions slowly in butter until they are the colour of an old violin.",
        "Let the dough rest under a towel until it has doubled, then fold it once more.",
        "Simmer the lentils with cumin, garlic and a bay leaf, and salt them only at the end.",
        "Whisk the egg whites to soft peaks before you fold in the melted chocolate.",
        "Grill the mackerel skin side down for three minutes and serve it with pickled cucumber.",
        "A pinch of sugar takes the edge off a tomato sauce that tastes too sharp.",
    ),
    "clinic": (
        "The patient reports a dry cough for two weeks, worse at night, without fever.",
        "Blood pressure has come down to 130 over 80 since the dose was doubled in May.",
        "The wound on the left forearm is clean and dry; stitches to be removed on Friday.",
        "She describes a throbbing headache on one side, with nausea and a dislike of light.",
        "The X-ray shows a hairline fracture of the wrist; a plaster cast for five weeks.",
        "Known allergy to penicillin, rash as a child; chose another antibiotic for the sore "
        "throat.",
    ),
    "swedish": (
        "Tåget till Östersund är fyrtio minuter försenat på grund av en älg på spåret.",
        "Grädda bullarna mitt i ugnen tills de är gyllenbruna och låt dem svalna under en duk.",
        "Hyresgästen ska säga upp avtalet skriftligen senast tre månader före flytten.",
        "I natt väntas kraftig snö i fjällen och hård vind längs hela kusten.",
        "Patienten har haft ont i ryggen sedan i våras men sover gott om nätterna.",
        "Jag får inte appen att öppna kvittona, trots att jag har startat om telefonen två gånger.",
    ),
}

# Questions in other words than the texts use, each with the topic that answers it.
QUERIES: dict[str, str] = {
    "trouble with the phone app": "support",
    "when can a contract be cancelled?": "law",
    "winter weather": "weather",
    "how do I bake bread?": "cooking",
    "a broken arm": "clinic",
}

# One word, two senses; the word stands once in each sentence.
WORD = "bank"
RIVER: tuple[str, ...] = (
    "We pulled the canoe up onto the bank and lit a fire under the willows.",
    "A heron stood on the muddy bank, waiting for the water to clear.",
    "After the flood the river had eaten away half of its eastern bank.",
    "Children fished from the grassy bank where the stream bends.",
    "An otter slid down the steep bank and vanished into the current.",
)
MONEY: tuple[str, ...] = (
    "She opened an account at the bank with her first salary.",
    "The bank raised the interest on deposits by half a percent.",
    "He asked the bank for a loan to buy the bakery next door.",
    "Customers queued outside the bank to withdraw their savings.",
    "My bank charges a fee for every payment abroad.",
)
